//! What stands in the parentheses of an attribute.

use proc_macro2::{Span, TokenStream};
use syn::{
    Error, Expr, ExprLit, Ident, Lit, LitStr, Result, Token,
    ext::IdentExt,
    parenthesized,
    parse::{Parse, ParseStream, Parser},
    punctuated::Punctuated,
};

/// One argument: `name`, `name = value` or `name(list)`.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    value: Value,
}

enum Value {
    None,
    Is(Expr),
    List(TokenStream),
}

/// Those that may be given more than once.
const MANY: [&str; 4] = ["complete", "icon", "tag", "tags"];

/// Reads them all. `known` is for the message if one is not.
pub(crate) fn read(input: ParseStream<'_>, kind: &str, known: &[&str]) -> Result<Vec<Argument>> {
    let list = || known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if input.peek(Lit) {
        let message =
            format!("arguments are written as `name = value`; #[{kind}] knows {}", list());
        return Err(input.error(message));
    }
    let arguments: Vec<Argument> =
        Punctuated::<Argument, Token![,]>::parse_terminated(input)?.into_iter().collect();
    for (n, argument) in arguments.iter().enumerate() {
        let name = &argument.name;
        if !known.iter().any(|known| name == known) {
            let message = format!("unknown argument `{name}`; #[{kind}] knows {}", list());
            return Err(Error::new(name.span(), message));
        }
        let before = arguments[..n].iter().any(|other| other.name == *name);
        if before && !MANY.iter().any(|many| name == many) {
            return Err(Error::new(name.span(), format!("`{name}` is given twice")));
        }
    }
    Ok(arguments)
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Argument> {
        let name = input.call(Ident::parse_any)?;
        let value = if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            Value::Is(input.parse()?)
        } else if input.peek(syn::token::Paren) {
            let list;
            parenthesized!(list in input);
            Value::List(list.parse()?)
        } else {
            Value::None
        };
        Ok(Argument { name, value })
    }
}

impl Argument {
    fn write(&self, example: &str) -> Error {
        Error::new(self.span(), format!("write `{}{example}`", self.name))
    }

    pub(crate) fn span(&self) -> Span {
        use syn::spanned::Spanned;
        match &self.value {
            Value::Is(value) => value.span(),
            Value::None | Value::List(_) => self.name.span(),
        }
    }

    /// A text, or an expression that makes one, such as `include_str!(..)` or the name of a constant.
    pub(crate) fn text(&self) -> Result<Expr> {
        match &self.value {
            Value::Is(Expr::Lit(ExprLit { lit, .. })) if !matches!(lit, Lit::Str(_)) => {
                Err(self.write(" = \"..\""))
            }
            Value::Is(text) => Ok(text.clone()),
            Value::None | Value::List(_) => Err(self.write(" = \"..\"")),
        }
    }

    /// A text that is there to be read.
    pub(crate) fn literal(&self, example: &str) -> Result<LitStr> {
        match &self.value {
            Value::Is(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => Ok(text.clone()),
            _ => Err(self.write(&format!(" = \"{example}\""))),
        }
    }

    /// `name` or `name = true`, or `name = false`.
    pub(crate) fn truth(&self) -> Result<bool> {
        match &self.value {
            Value::None => Ok(true),
            Value::Is(Expr::Lit(ExprLit { lit: Lit::Bool(truth), .. })) => Ok(truth.value),
            _ => Err(self.write(&format!("` or `{} = false", self.name))),
        }
    }

    pub(crate) fn number(&self) -> Result<u32> {
        match &self.value {
            Value::Is(Expr::Lit(ExprLit { lit: Lit::Int(number), .. })) => number.base10_parse(),
            _ => Err(self.write(" = 1")),
        }
    }

    /// `name(key = value, ..)`, where a key may be in quotes.
    pub(crate) fn pairs(&self, example: &str) -> Result<Vec<(LitStr, Expr)>> {
        let Value::List(list) = &self.value else { return Err(self.write(example)) };
        let pairs = Punctuated::<Pair, Token![,]>::parse_terminated.parse2(list.clone())?;
        if pairs.is_empty() {
            return Err(self.write(example));
        }
        Ok(pairs.into_iter().map(|pair| (pair.key, pair.value)).collect())
    }
}

struct Pair {
    key: LitStr,
    value: Expr,
}

impl Parse for Pair {
    fn parse(input: ParseStream<'_>) -> Result<Pair> {
        let key = if input.peek(LitStr) {
            input.parse()?
        } else {
            let name = input.call(Ident::parse_any)?;
            LitStr::new(&name.unraw().to_string(), name.span())
        };
        input.parse::<Token![=]>()?;
        Ok(Pair { key, value: input.parse()? })
    }
}
