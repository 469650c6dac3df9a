//! Apollo Client and urql work unchanged.
