//! What an attribute turns a function into.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Error, ItemFn, Result, parse::ParseStream};

use crate::function::Function;

/// Where the code we write finds what it needs, whatever its user has imported.
pub(crate) fn private() -> TokenStream {
    quote!(::steadfast::__private)
}

/// One of the attributes.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Its name.
    pub(crate) name: &'static str,
    /// The type that its functions make.
    pub(crate) makes: &'static str,
}

impl Kind {
    fn makes(self) -> TokenStream {
        let (private, name) = (private(), quote::format_ident!("{}", self.makes));
        quote!(#private::#name)
    }
}

/// Writes the expression that makes what the attribute stands for.
pub(crate) type Expand = fn(ParseStream<'_>, &Function) -> Result<TokenStream>;

pub(crate) fn run(
    kind: Kind,
    arguments: TokenStream,
    item: TokenStream,
    expand: Expand,
) -> TokenStream {
    let item: ItemFn = match syn::parse2(item) {
        Ok(item) => item,
        Err(error) => {
            let message = format!("#[{}] is for async functions: {error}", kind.name);
            return Error::new(error.span(), message).into_compile_error();
        }
    };
    let stub = stub(kind, &item);
    let expanded = Function::read(item, kind.name).and_then(|function| {
        let make = syn::parse::Parser::parse2(
            |input: ParseStream<'_>| expand(input, &function),
            arguments,
        )?;
        Ok(items(kind, &function, &make))
    });
    expanded.unwrap_or_else(|error| {
        let error = error.into_compile_error();
        quote!(#error #stub)
    })
}

/// Stands in for a function with a mistake, so that the mistake is the only one that is shown.
fn stub(kind: Kind, item: &ItemFn) -> TokenStream {
    let (vis, name, makes) = (&item.vis, &item.sig.ident, kind.makes());
    quote!(#[allow(dead_code)] #vis fn #name() -> #makes { ::core::unimplemented!() })
}

fn items(kind: Kind, function: &Function, make: &TokenStream) -> TokenStream {
    let Function { item, docs, cfgs, .. } = function;
    let (name, vis, makes) = (&item.sig.ident, &item.vis, kind.makes());
    let about =
        format!("The function of the {} `{name}`, to be called as it was written.", kind.name);
    let mut call = item.clone();
    call.sig.ident = syn::Ident::new("call", name.span());
    // Shown as the author's, so that one that is never offered is shown as not used.
    let maker = quote_spanned!(name.span()=> #vis fn #name() -> #makes { #make });
    // The type has no values, and is not a constant either: so it is in no pattern's way.
    quote! {
        #(#cfgs)*
        #[doc = #about]
        #[allow(dead_code, non_camel_case_types)]
        #vis enum #name {}

        #(#cfgs)*
        #[allow(dead_code, clippy::unused_async)]
        impl #name {
            #(#docs)*
            #call
        }

        #(#cfgs)*
        #(#docs)*
        #[must_use]
        #maker
    }
}
