//! Test doubles and strategies for procyard: a scripted runner, a store that forgets, generators.
