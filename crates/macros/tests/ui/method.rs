use steadfast::prelude::*;

struct Greeter;

impl Greeter {
    #[tool]
    async fn greet(&self, name: String) -> Result<String> {
        Ok(name)
    }
}

fn main() {}
