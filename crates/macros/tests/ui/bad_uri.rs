use steadfast::prelude::*;

#[resource]
async fn none() -> Result<String> {
    Ok(String::new())
}

#[resource("terms")]
async fn no_scheme() -> Result<String> {
    Ok(String::new())
}

#[resource("orders://{id")]
async fn open(id: String) -> Result<String> {
    Ok(id)
}

#[resource("orders://{?id}")]
async fn query(id: String) -> Result<String> {
    Ok(id)
}

fn main() {}
