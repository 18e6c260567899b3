//! The function as its author wrote it, and whether it can be what it is meant to be.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, LitStr, Meta, Result, ReturnType,
    Type, ext::IdentExt, spanned::Spanned,
};

use crate::parameter::{Parameter, last_name};

pub(crate) struct Function {
    /// As it was, without the attributes that have been taken out.
    pub(crate) item: ItemFn,
    /// Its doc comment.
    pub(crate) docs: Vec<Attribute>,
    /// Its `#[cfg(..)]`, which everything that is written for it needs.
    pub(crate) cfgs: Vec<Attribute>,
    /// The type of its first parameter if that is a `Context`.
    pub(crate) context: Option<Type>,
    /// The others.
    pub(crate) parameters: Vec<Parameter>,
}

impl Function {
    pub(crate) fn read(mut item: ItemFn, kind: &str) -> Result<Function> {
        check_signature(&item, kind)?;
        let mut inputs = item.sig.inputs.iter_mut().peekable();
        let context = inputs.peek().and_then(|first| context(first)).cloned();
        if context.is_some() {
            inputs.next();
        }
        let mut parameters = Vec::new();
        for input in inputs {
            if let FnArg::Typed(typed) = &*input {
                check_place(&typed.ty)?;
            }
            parameters.push(Parameter::read(input, kind)?);
        }
        let (docs, rest) = split(std::mem::take(&mut item.attrs), "doc");
        let (cfgs, rest) = split(rest, "cfg");
        item.attrs = rest;
        Ok(Function { item, docs, cfgs, context, parameters })
    }

    /// Its name as others see it.
    pub(crate) fn text_name(&self) -> LitStr {
        let name = &self.item.sig.ident;
        LitStr::new(&name.unraw().to_string(), name.span())
    }

    /// Where its result is written.
    pub(crate) fn result_span(&self) -> Span {
        match &self.item.sig.output {
            ReturnType::Type(_, ty) => ty.span(),
            ReturnType::Default => self.item.sig.ident.span(),
        }
    }

    /// A function of ours that makes something of this one. A result that can't be one is what it
    /// mostly objects to, so this is shown there.
    pub(crate) fn maker(&self, makes: &str, how: &str) -> TokenStream {
        let span = self.result_span();
        let (makes, how) = (Ident::new(makes, span), Ident::new(how, span));
        quote_spanned!(span=> ::steadfast::__private::#makes::#how)
    }

    /// Its doc comment as a text.
    pub(crate) fn documentation(&self) -> Option<LitStr> {
        doc_text(&self.docs, self.item.sig.ident.span())
    }
}

fn check_signature(item: &ItemFn, kind: &str) -> Result<()> {
    let signature = &item.sig;
    if signature.asyncness.is_none() {
        let message = format!("#[{kind}] is for async functions: write `async fn`");
        return Err(Error::new_spanned(signature.fn_token, message));
    }
    if let Some(token) = &signature.unsafety {
        let message = format!("#[{kind}] is for safe functions: anybody can call it");
        return Err(Error::new_spanned(token, message));
    }
    if !signature.generics.params.is_empty() {
        let message = format!(
            "#[{kind}] is for functions without generic parameters: it has one input and one result, \
             known when the server starts"
        );
        return Err(Error::new_spanned(&signature.generics, message));
    }
    match &signature.output {
        ReturnType::Default => {
            let message = format!(
                "#[{kind}] needs a result: write `-> Result<()>` if there is nothing to say"
            );
            Err(Error::new(signature.paren_token.span.close(), message))
        }
        ReturnType::Type(_, ty) if last_name(ty).is_none_or(|name| name != "Result") => {
            let message = format!("#[{kind}] can fail: write `Result<{}>`", ty.to_token_stream());
            Err(Error::new_spanned(ty, message))
        }
        ReturnType::Type(..) => Ok(()),
    }
}

/// The type of a parameter that is a `Context`. Its name is all that can be gone by.
fn context(argument: &FnArg) -> Option<&Type> {
    match argument {
        FnArg::Typed(typed) if last_name(&typed.ty)? == "Context" => Some(&typed.ty),
        _ => None,
    }
}

/// A `Context` is first, and nowhere else.
fn check_place(ty: &Type) -> Result<()> {
    let named = |ty: &Type| last_name(ty).is_some_and(|name| name == "Context");
    match ty {
        Type::Reference(inner) if named(&inner.elem) => Err(Error::new_spanned(
            ty,
            "write `Context`: it is handed over, and a clone of it costs little",
        )),
        ty if named(ty) => Err(Error::new_spanned(ty, "`Context` must be the first parameter")),
        _ => Ok(()),
    }
}

fn split(attributes: Vec<Attribute>, name: &str) -> (Vec<Attribute>, Vec<Attribute>) {
    attributes.into_iter().partition(|attribute| attribute.path().is_ident(name))
}

/// The text of doc comments, without the space that each line begins with.
pub(crate) fn doc_text(attributes: &[Attribute], span: Span) -> Option<LitStr> {
    let mut lines = Vec::new();
    for attribute in attributes {
        let Meta::NameValue(meta) = &attribute.meta else { continue };
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &meta.value else { continue };
        let text = text.value();
        // A comment of the kind that has a star before each line.
        let starred = text.contains('\n')
            && text
                .lines()
                .skip(1)
                .all(|line| line.trim().is_empty() || line.trim().starts_with('*'));
        for line in text.split('\n') {
            let line = match line.trim_start().strip_prefix('*') {
                Some(rest) if starred => rest,
                _ => line,
            };
            lines.push(line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned());
        }
    }
    let text = lines.join("\n");
    let text = text.trim();
    (!text.is_empty()).then(|| LitStr::new(text, span))
}
