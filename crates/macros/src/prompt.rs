//! `#[prompt]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Result, parse::ParseStream};

use crate::{
    about::About,
    arguments,
    expansion::Kind,
    function::Function,
    input,
    parameter::{Parameter, last_name},
};

pub(crate) const KIND: Kind = Kind { name: "prompt", makes: "Prompt" };

const KNOWN: [&str; 5] = ["name", "title", "description", "icon", "complete"];

pub(crate) fn expand(input: ParseStream<'_>, function: &Function) -> Result<TokenStream> {
    let mut about = About::default();
    for argument in arguments::read(input, KIND.name, &KNOWN)? {
        about.take(&argument)?;
    }
    function.parameters.iter().try_for_each(check_text)?;
    check_completions(&about, &function.parameters)?;
    let maker = match function.context {
        Some(_) => function.maker("Prompt", "durable"),
        None => function.maker("Prompt", "new"),
    };
    let make = input::expand(function, &maker, &about.name(function));
    let about = about.calls(function);
    Ok(quote! {
        let __prompt = #make;
        __prompt #about
    })
}

const NO_TEXTS: [&str; 15] = [
    "bool", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64",
    "u128", "usize",
];

/// Clients send texts, and would be told only in use that they are none of these.
fn check_text(parameter: &Parameter) -> Result<()> {
    if last_name(&parameter.ty).is_some_and(|ty| NO_TEXTS.iter().any(|name| ty == name)) {
        let message =
            "the arguments of a prompt are texts: take a `String`, and read it in the body";
        return Err(Error::new_spanned(&parameter.ty, message));
    }
    Ok(())
}

/// What is completed must be there, as far as that can be seen here: a single parameter may be a struct,
/// and serde may rename fields.
fn check_completions(about: &About, parameters: &[Parameter]) -> Result<()> {
    let renamed = parameters.iter().any(|parameter| !parameter.field.is_empty());
    if renamed || parameters.len() == 1 {
        return Ok(());
    }
    for (name, _) in &about.completions {
        if !parameters.iter().any(|parameter| parameter.text_name().value() == name.value()) {
            let message = format!("there is no parameter `{}` to complete", name.value());
            return Err(Error::new(name.span(), message));
        }
    }
    Ok(())
}
