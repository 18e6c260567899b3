//! The arguments of `#[tool]` that only a durable tool has.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Result};

use crate::{
    arguments::Argument,
    duration::{self, Length},
    expansion::private,
    function::Function,
};

#[derive(Default)]
pub(crate) struct Durable {
    calls: Vec<TokenStream>,
    kept: bool,
    version: Option<u32>,
    oldest: Option<(u32, Argument)>,
}

impl Durable {
    /// Takes an argument that is nobody else's.
    pub(crate) fn take(&mut self, argument: Argument, function: &Function) -> Result<()> {
        let (private, name) = (private(), &argument.name);
        if function.context.is_none() {
            let message = format!(
                "`{name}` is for durable tools: take a `Context` as the first parameter, \
                 or leave it out"
            );
            return Err(Error::new(name.span(), message));
        }
        let call = match name.to_string().as_str() {
            "tag" => tags(&argument, "(\"key\" = \"value\")")?,
            "tags" => tags(&argument, "(key = \"value\", ..)")?,
            "retention" | "ttl" => {
                if std::mem::replace(&mut self.kept, true) {
                    let message =
                        "`retention` and `ttl` are two words for one thing: leave one out";
                    return Err(Error::new(name.span(), message));
                }
                let ttl = ttl(&argument)?;
                quote!(.retention(#ttl))
            }
            "max_age" => {
                let ttl = ttl(&argument)?;
                quote!(.max_age(#ttl))
            }
            "poll_interval" => {
                let Length::Millis(millis) = duration::read(&argument.literal("500ms")?)? else {
                    let message = "clients must ask at some time: write `poll_interval = \"1s\"`";
                    return Err(Error::new(argument.span(), message));
                };
                quote!(.poll_interval(::core::time::Duration::from_millis(#millis)))
            }
            "task" => {
                let support = support(&argument)?;
                quote!(.task_support(#private::TaskSupport::#support))
            }
            "hands_itself_out" => match argument.truth()? {
                true => quote!(.hands_itself_out()),
                false => quote!(),
            },
            "version" => {
                self.version = Some(argument.number()?);
                return Ok(());
            }
            _ => {
                self.oldest = Some((argument.number()?, argument));
                return Ok(());
            }
        };
        self.calls.push(call);
        Ok(())
    }

    /// The calls on the builder that say all this.
    pub(crate) fn calls(self) -> Result<TokenStream> {
        let versions = match (self.version, self.oldest) {
            (None, None) => None,
            // Code that says nothing of older tasks can't be trusted with them.
            (Some(version), None) => Some(quote!(.versions(#version, #version))),
            (Some(version), Some((oldest, _))) if oldest <= version => {
                Some(quote!(.versions(#version, #oldest)))
            }
            (version, Some((_, argument))) => {
                let message = match version {
                    None => "`oldest_version` goes with `version = ..`",
                    Some(_) => "`oldest_version` must not be newer than `version`",
                };
                return Err(Error::new(argument.span(), message));
            }
        };
        let calls = self.calls;
        Ok(quote!(#(#calls)* #versions))
    }
}

fn tags(argument: &Argument, example: &str) -> Result<TokenStream> {
    let (keys, values): (Vec<_>, Vec<_>) = argument.pairs(example)?.into_iter().unzip();
    Ok(quote!(#(.tag(#keys, #values))*))
}

fn ttl(argument: &Argument) -> Result<TokenStream> {
    let private = private();
    Ok(match duration::read(&argument.literal("7d")?)? {
        Length::Millis(millis) => quote!(#private::Ttl::Millis(#millis)),
        Length::Forever => quote!(#private::Ttl::Forever),
    })
}

fn support(argument: &Argument) -> Result<TokenStream> {
    let text = argument.literal("optional")?;
    match text.value().as_str() {
        "forbidden" => Ok(quote!(Forbidden)),
        "optional" => Ok(quote!(Optional)),
        "required" => Ok(quote!(Required)),
        _ => {
            let message = "write `task = \"forbidden\"`, `\"optional\"` or `\"required\"`";
            Err(Error::new(text.span(), message))
        }
    }
}
