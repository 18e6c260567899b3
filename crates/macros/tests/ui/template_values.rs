use steadfast::prelude::*;

#[resource("orders://{id}/invoice")]
async fn no_parameter() -> Result<String> {
    Ok(String::new())
}

#[resource("orders://{id}")]
async fn no_value(id: String, day: String) -> Result<String> {
    Ok(id + &day)
}

#[resource("orders://{id}")]
async fn with_default(#[default("1")] id: String) -> Result<String> {
    Ok(id)
}

async fn days(_: Completing) -> Result<Vec<String>> {
    Ok(Vec::new())
}

#[resource("orders://{id}", complete(day = days))]
async fn no_such_value(id: String) -> Result<String> {
    Ok(id)
}

#[prompt(complete(day = days))]
async fn no_such_argument(month: String, year: String) -> Result<String> {
    Ok(month + &year)
}

fn main() {
    let _ = Server::new("test").template(no_parameter);
}
