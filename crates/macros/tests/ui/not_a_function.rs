use steadfast::prelude::*;

#[tool]
struct Greet;

fn main() {}
