//! The service behind this one, which knows its customers by keys of its own. It stands for anything that is
//! called in a user's name.

use steadfast::prelude::*;

pub(crate) const CUSTOMERS: [(&str, &str); 3] = [
    ("bank-key-e1a7f0d2c4-of-ada", "Ada's account"),
    ("bank-key-58b3c6d9e0-of-bob", "Bob's account"),
    ("bank-key-0f9e8d7c6b-of-eve", "Eve's account"),
];

/// Pays, and says from which account. A payment of the same number is made once.
pub(crate) async fn pay(key: &Secret, number: &str, invoice: &str, amount: f64) -> Result<String> {
    let customer = CUSTOMERS.iter().find(|(known, _)| *known == key.expose());
    let (_, account) = customer.ok_or_else(|| Error::new("the bank does not know this key"))?;
    eprintln!("  the bank pays {invoice} over ${amount} from {account} ({number})");
    Ok((*account).to_owned())
}
