//! The wire types of procyard: tool arguments and results, HTTP bodies, errors.
