//! Identity, states, quotas, lease rules, error codes and the lifecycle matrix of procyard; pure.
