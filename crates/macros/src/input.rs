//! How the parameters come out of the input of a tool or a prompt.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use crate::{expansion::private, function::Function};

/// Writes the expression that makes a `Tool` or a `Prompt`: `maker` on a name and a closure, which is
/// of the form that the parameters ask for.
pub(crate) fn expand(function: &Function, maker: &TokenStream, name: &syn::Expr) -> TokenStream {
    let private = private();
    match function.parameters.as_slice() {
        [] => make(function, maker, name, &quote!(#private::NoInput), &[]),
        [one] if !one.is_field() => {
            let ty = &one.ty;
            let whole = make(function, maker, name, &quote!(#ty), &[quote!(__input)]);
            let fields = fields(function, maker, name);
            quote! {
                if #private::is_object::<#ty>() { #whole } else { #fields }
            }
        }
        _ => fields(function, maker, name),
    }
}

/// Each parameter is a field of a struct that is the input.
fn fields(function: &Function, maker: &TokenStream, name: &syn::Expr) -> TokenStream {
    let private = private();
    let parameters = &function.parameters;
    let defaults = parameters.iter().filter_map(|parameter| parameter.default_function());
    let values: Vec<_> = parameters
        .iter()
        .map(|parameter| {
            let name = &parameter.name;
            quote!(__input.#name)
        })
        .collect();
    let make = make(function, maker, name, &quote!(__Input), &values);
    let (serde, schemars) = (format!("{private}::serde"), format!("{private}::schemars"));
    let (serde, schemars) = (serde.replace(' ', ""), schemars.replace(' ', ""));
    let title = function.text_name();
    quote! {{
        #(#defaults)*

        #[derive(#private::serde::Deserialize, #private::schemars::JsonSchema)]
        #[serde(crate = #serde, rename = #title)]
        #[schemars(crate = #schemars)]
        struct __Input { #(#parameters),* }

        #make
    }}
}

fn make(
    function: &Function,
    maker: &TokenStream,
    name: &syn::Expr,
    input: &TokenStream,
    values: &[TokenStream],
) -> TokenStream {
    let own = &function.item.sig.ident;
    // A context of the wrong type is shown where it was written.
    let context = function.context.as_ref().map(|ty| quote_spanned!(ty.span()=> __context,));
    let body = result(function, &quote!(#own::call(#context #(#values),*)));
    let input = if values.is_empty() { quote!(_: #input) } else { quote!(__input: #input) };
    let span = function.result_span();
    quote_spanned!(span=> #maker(#name, |#context #input| async move { #body }))
}

/// Awaits a call, and turns its error into ours.
pub(crate) fn result(function: &Function, call: &TokenStream) -> TokenStream {
    let (private, span) = (private(), function.result_span());
    quote_spanned!(span=> #private::result(#call.await))
}
