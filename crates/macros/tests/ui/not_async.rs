use steadfast::prelude::*;

#[tool]
fn greet(name: String) -> Result<String> {
    Ok(name)
}

fn main() {
    let _ = Server::new("test").tool(greet);
}
