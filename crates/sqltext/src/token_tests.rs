//! Tests of the lexer: tokens of both dialects.
