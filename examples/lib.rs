//! Things that one would really write with tenure. Each file beside this one is a program:
//! `cargo run -p tenure-examples --example smallest`.
