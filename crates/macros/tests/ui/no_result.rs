use steadfast::prelude::*;

#[tool]
async fn nothing(name: String) {
    drop(name);
}

#[tool]
async fn text(name: String) -> String {
    name
}

#[prompt]
async fn pair() -> (String, String) {
    Default::default()
}

fn main() {}
