//! A parameter of the function, which becomes a field of the input or a value of a URI.

use quote::{ToTokens, quote};
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, Lit, LitStr, Meta, Pat, Result, Type,
    ext::IdentExt, spanned::Spanned,
};

use crate::function::doc_text;

pub(crate) struct Parameter {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    /// Its doc comment.
    pub(crate) docs: Vec<Attribute>,
    /// `#[serde(..)]` and `#[schemars(..)]`, for the field that it becomes.
    pub(crate) field: Vec<Attribute>,
    pub(crate) default: Option<Default>,
}

/// What it is if the caller leaves it out.
pub(crate) enum Default {
    /// Of its type.
    Type,
    Is(Box<Expr>),
}

impl Parameter {
    /// Reads a parameter, and leaves at it only the attributes that the compiler knows there.
    pub(crate) fn read(argument: &mut FnArg, kind: &str) -> Result<Parameter> {
        let typed = match argument {
            FnArg::Typed(typed) => typed,
            FnArg::Receiver(receiver) => {
                let message = format!(
                    "#[{kind}] is for functions without `self`; take what the method needs from a static, \
                     or make the {kind} by hand from a closure"
                );
                return Err(Error::new_spanned(receiver, message));
            }
        };
        let name = match &*typed.pat {
            Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => pat.ident.clone(),
            other => {
                let message = "a parameter needs a name, under which it is in the input; \
                               take it apart in the body";
                return Err(Error::new_spanned(other, message));
            }
        };
        owned(&typed.ty)?;
        let (ty, written) = (typed.ty.as_ref().clone(), std::mem::take(&mut typed.attrs));
        let (mut docs, mut field, mut default) = (Vec::new(), Vec::new(), None);
        for attribute in written {
            match attribute.path().get_ident().map(Ident::to_string).as_deref() {
                Some("doc") => docs.push(attribute),
                Some("serde" | "schemars") => field.push(attribute),
                Some("default") => default = Some(read_default(&attribute)?),
                Some("allow" | "expect" | "warn" | "deny" | "forbid") => {
                    typed.attrs.push(attribute)
                }
                _ => {
                    let message = "on a parameter only `/// text`, `#[default(expression)]`, `#[serde(..)]` \
                                   and `#[schemars(..)]` have a meaning";
                    return Err(Error::new_spanned(attribute, message));
                }
            }
        }
        Ok(Parameter { name, ty, docs, field, default })
    }

    /// Its name as others see it.
    pub(crate) fn text_name(&self) -> LitStr {
        LitStr::new(&self.name.unraw().to_string(), self.name.span())
    }

    /// Its description.
    pub(crate) fn documentation(&self) -> Option<LitStr> {
        doc_text(&self.docs, self.name.span())
    }

    /// Whether it is a field whatever its type is.
    pub(crate) fn is_field(&self) -> bool {
        self.default.is_some() || !self.field.is_empty()
    }

    fn default_name(&self) -> Ident {
        quote::format_ident!("__default_{}", self.name.unraw())
    }

    /// The function that serde calls for the default.
    pub(crate) fn default_function(&self) -> Option<proc_macro2::TokenStream> {
        let Some(Default::Is(expr)) = &self.default else { return None };
        let (name, ty) = (self.default_name(), &self.ty);
        Some(quote!(fn #name() -> #ty { #expr }))
    }

    /// No attribute but a doc comment, which a resource has no use for either.
    pub(crate) fn must_be_bare(&self) -> Result<()> {
        let attribute = self.field.first().map(|attribute| attribute.span());
        match attribute.or(self.default.as_ref().map(|_| self.name.span())) {
            None => Ok(()),
            Some(span) => {
                let message =
                    "a value of a URI is always there, under its own name: leave the attribute out";
                Err(Error::new(span, message))
            }
        }
    }
}

/// The last name of a type's path: `Context` of `steadfast::prelude::Context`.
pub(crate) fn last_name(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        Type::Paren(inner) => last_name(&inner.elem),
        Type::Group(inner) => last_name(&inner.elem),
        _ => None,
    }
}

/// The input is read from JSON and handed over: nothing is there to borrow from.
fn owned(ty: &Type) -> Result<()> {
    let message = match ty {
        Type::Reference(reference) => {
            let inner = reference.elem.to_token_stream().to_string();
            let instead = if inner == "str" { "String" } else { inner.as_str() };
            format!("a parameter owns its value: write `{instead}`")
        }
        Type::ImplTrait(_) => {
            "a parameter needs a type of its own: generic functions have no one input".into()
        }
        _ => return Ok(()),
    };
    Err(Error::new_spanned(ty, message))
}

fn read_default(attribute: &Attribute) -> Result<Default> {
    match &attribute.meta {
        Meta::Path(_) => Ok(Default::Type),
        Meta::List(list) => {
            let expr: Expr = list.parse_args()?;
            // A text is mostly meant for a `String`.
            let text = matches!(&expr, Expr::Lit(ExprLit { lit: Lit::Str(_), .. }));
            let expr =
                if text { syn::parse_quote!(::core::convert::Into::into(#expr)) } else { expr };
            Ok(Default::Is(Box::new(expr)))
        }
        Meta::NameValue(_) => {
            Err(Error::new_spanned(attribute, "write `#[default(expression)]` or `#[default]`"))
        }
    }
}

impl ToTokens for Parameter {
    /// The field of a struct.
    fn to_tokens(&self, tokens: &mut proc_macro2::TokenStream) {
        let Parameter { name, ty, field, .. } = self;
        let docs = self.documentation().into_iter();
        let default = self.default.as_ref().map(|default| match default {
            Default::Type => quote!(#[serde(default)]),
            Default::Is(_) => {
                let function = self.default_name().to_string();
                quote!(#[serde(default = #function)])
            }
        });
        tokens.extend(quote!(#(#[doc = #docs])* #default #(#field)* #name: #ty));
    }
}
