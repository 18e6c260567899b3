//! What tools, prompts and resources can all be given.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, LitStr, Result};

use crate::{arguments::Argument, expansion::private, function::Function};

/// How an argument is used if it is one of these.
#[derive(Default)]
pub(crate) struct About {
    name: Option<Expr>,
    title: Option<Expr>,
    description: Option<Expr>,
    icons: Vec<Expr>,
    pub(crate) completions: Vec<(LitStr, Expr)>,
}

impl About {
    /// Takes an argument; false if it is another's.
    pub(crate) fn take(&mut self, argument: &Argument) -> Result<bool> {
        match argument.name.to_string().as_str() {
            "name" => self.name = Some(argument.text()?),
            "title" => self.title = Some(argument.text()?),
            "description" => self.description = Some(argument.text()?),
            "icon" => self.icons.push(argument.text()?),
            "complete" => self.completions.extend(argument.pairs("(argument = function)")?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The name, or that of the function.
    pub(crate) fn name(&self, function: &Function) -> Expr {
        let own = function.text_name();
        self.name.clone().unwrap_or_else(|| syn::parse_quote!(#own))
    }

    /// The calls on the builder that say all this.
    pub(crate) fn calls(&self, function: &Function) -> TokenStream {
        let private = private();
        let title = self.title.iter();
        let documented = function.documentation();
        let documented = documented.map(|text| -> Expr { syn::parse_quote!(#text) });
        let description = self.description.clone().or(documented).into_iter();
        let (icons, completions) = (&self.icons, &self.completions);
        let (arguments, functions): (Vec<_>, Vec<_>) = completions.iter().cloned().unzip();
        quote! {
            #(.title(#title))*
            #(.description(#description))*
            #(.icon(#private::Icon::new(#icons)))*
            #(.complete(#arguments, #functions))*
        }
    }
}
