//! `#[tool]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Result, parse::ParseStream};

use crate::{
    about::About,
    arguments,
    durable::Durable,
    expansion::{Kind, private},
    function::Function,
    input,
};

pub(crate) const KIND: Kind = Kind { name: "tool", makes: "Tool" };

const KNOWN: [&str; 18] = [
    "name",
    "title",
    "description",
    "icon",
    "read_only",
    "destructive",
    "idempotent",
    "open_world",
    "tag",
    "tags",
    "retention",
    "ttl",
    "max_age",
    "poll_interval",
    "task",
    "version",
    "oldest_version",
    "hands_itself_out",
];

pub(crate) fn expand(input: ParseStream<'_>, function: &Function) -> Result<TokenStream> {
    let (mut about, mut hints, mut durable) = (About::default(), Vec::new(), Durable::default());
    for argument in arguments::read(input, KIND.name, &KNOWN)? {
        if about.take(&argument)? {
            continue;
        }
        match argument.name.to_string().as_str() {
            "read_only" => hints.push((quote!(read_only_hint), argument.truth()?)),
            "destructive" => hints.push((quote!(destructive_hint), argument.truth()?)),
            "idempotent" => hints.push((quote!(idempotent_hint), argument.truth()?)),
            "open_world" => hints.push((quote!(open_world_hint), argument.truth()?)),
            _ => durable.take(argument, function)?,
        }
    }
    let maker = match function.context {
        Some(_) => function.maker("Tool", "new"),
        None => function.maker("Tool", "plain"),
    };
    let make = input::expand(function, &maker, &about.name(function));
    let (about, hints, durable) = (about.calls(function), annotations(&hints), durable.calls()?);
    Ok(quote! {
        let __tool = #make;
        __tool #about #hints #durable
    })
}

fn annotations(hints: &[(TokenStream, bool)]) -> Option<TokenStream> {
    let private = private();
    let (names, truths): (Vec<_>, Vec<_>) = hints.iter().cloned().unzip();
    (!hints.is_empty()).then(|| {
        quote! {
            .annotations(#private::ToolAnnotations {
                #(#names: ::core::option::Option::Some(#truths),)*
                ..::core::default::Default::default()
            })
        }
    })
}
