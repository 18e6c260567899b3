//! `#[resource]`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Error, LitStr, Result, Token, parse::ParseStream, spanned::Spanned};

use crate::{
    about::About,
    arguments,
    expansion::{Kind, private},
    function::Function,
    input::result,
    parameter::Parameter,
    uri,
};

pub(crate) const KIND: Kind = Kind { name: "resource", makes: "Resource" };
pub(crate) const TEMPLATE: Kind = Kind { name: "resource", makes: "Template" };

const KNOWN: [&str; 6] = ["name", "title", "description", "icon", "mime_type", "complete"];

/// The parameter that gets the URI itself.
const URI: &str = "uri";

pub(crate) fn expand(input: ParseStream<'_>, function: &Function) -> Result<TokenStream> {
    let (mut about, mut mime_type) = (About::default(), None);
    let uri = read_uri(input)?;
    for argument in arguments::read(input, KIND.name, &KNOWN)? {
        if !about.take(&argument)? {
            mime_type = Some(argument.text()?);
        }
    }
    let values = uri::values(&uri)?;
    check_values(&uri, &values, &function.parameters)?;
    for (name, _) in &about.completions {
        if !values.contains(&name.value()) {
            let message =
                format!("there is no value `{{{}}}` in the URI to complete", name.value());
            return Err(Error::new(name.span(), message));
        }
    }
    let make = match values.as_slice() {
        [] => resource(function, &uri, &about),
        values => template(function, &uri, values, &about),
    };
    let (about, mime_type) = (about.calls(function), mime_type.iter());
    Ok(quote! {
        let __resource = #make;
        __resource #about #(.mime_type(#mime_type))*
    })
}

fn read_uri(input: ParseStream<'_>) -> Result<LitStr> {
    let example = "write the URI first: `#[resource(\"orders://terms\")]`, \
                   or with values `#[resource(\"orders://{id}\")]`";
    if !input.peek(LitStr) {
        return Err(Error::new(input.span(), example));
    }
    let uri = input.parse()?;
    if !input.is_empty() {
        input.parse::<Token![,]>()?;
    }
    Ok(uri)
}

/// Each value has its parameter, and each parameter its value.
fn check_values(uri: &LitStr, values: &[String], parameters: &[Parameter]) -> Result<()> {
    let named = |name: &str| parameters.iter().any(|one| one.text_name().value() == name);
    if let Some(value) = values.iter().find(|value| !named(value)) {
        let message = format!("the value `{{{value}}}` needs a parameter: add `{value}: String`");
        return Err(Error::new(uri.span(), message));
    }
    for parameter in parameters {
        parameter.must_be_bare()?;
        let name = parameter.text_name();
        if name.value() != URI && !values.contains(&name.value()) {
            let name = name.value();
            let message = format!(
                "there is no value `{{{name}}}` in the URI: write it there, \
                 or leave the parameter out"
            );
            return Err(Error::new(parameter.name.span(), message));
        }
    }
    Ok(())
}

/// One that has a context is durable.
fn how(function: &Function) -> &'static str {
    if function.context.is_some() { "durable" } else { "new" }
}

/// The context, if there is one, with what separates it from what follows. One of the wrong type is shown
/// where it was written.
fn context(function: &Function) -> Option<TokenStream> {
    function.context.as_ref().map(|ty| quote_spanned!(ty.span()=> __context,))
}

fn resource(function: &Function, uri: &LitStr, about: &About) -> TokenStream {
    let (name, own) = (about.name(function), &function.item.sig.ident);
    // If there is a parameter at all it is the URI.
    let uris = function.parameters.iter().map(|_| uri);
    let context = context(function);
    let call = quote!(#own::call(#context #(::std::string::String::from(#uris)),*));
    let body = result(function, &call);
    let maker = function.maker("Resource", how(function));
    quote!(#maker(#uri, #name, |#context| async move { #body }))
}

fn template(function: &Function, uri: &LitStr, values: &[String], about: &About) -> TokenStream {
    let (private, name, own) = (private(), about.name(function), &function.item.sig.ident);
    let arguments = function.parameters.iter().map(|parameter| {
        let name = parameter.text_name();
        match values.contains(&name.value()) {
            true => quote!(#private::value(&mut __values, #name)?),
            false => quote!(__uri),
        }
    });
    let context = context(function);
    let body = result(function, &quote!(#own::call(#context #(#arguments),*)));
    let maker = function.maker("Template", how(function));
    quote! {
        #maker(#uri, #name, |#context __uri, mut __values: #private::Values| async move {
            #body
        })
    }
}
