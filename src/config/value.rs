//! How a TOML value becomes a setting.

use toml_edit::Value;

/// What a key takes, beyond its type. Kept beside the key, so that the check and the
/// sentence that explains it cannot drift apart.
#[derive(Debug, Clone, Copy)]
pub enum Allowed {
    /// Whatever the type takes; the words describe it.
    Any(&'static str),
    /// A whole number from the first to the second, both included.
    Between(u64, u64),
    /// Texts that pass the check; the words describe them.
    Text(fn(&str) -> bool, &'static str),
}

/// A type that a key can have.
pub trait Setting: Sized {
    /// The value, if it is of this type and allowed.
    fn read(value: &Value, allowed: Allowed) -> Option<Self>;

    /// What is allowed, for the person who got it wrong.
    fn describe(allowed: Allowed) -> String;
}

macro_rules! whole_number {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            fn read(value: &Value, allowed: Allowed) -> Option<Self> {
                let number = u64::try_from(value.as_integer()?).ok()?;
                match allowed {
                    Allowed::Between(least, most) if number < least || number > most => None,
                    _ => number.try_into().ok(),
                }
            }

            fn describe(allowed: Allowed) -> String {
                match allowed {
                    Allowed::Between(least, most) => format!("a whole number from {least} to {most}"),
                    Allowed::Any(what) | Allowed::Text(_, what) => what.into(),
                }
            }
        }
    )*};
}
whole_number!(u8, u16, u32, u64, usize);

impl Setting for bool {
    fn read(value: &Value, _: Allowed) -> Option<Self> {
        value.as_bool()
    }

    fn describe(_: Allowed) -> String {
        "true or false".into()
    }
}

impl Setting for String {
    fn read(value: &Value, allowed: Allowed) -> Option<Self> {
        let text = value.as_str()?;
        match allowed {
            Allowed::Text(fits, _) if !fits(text) => None,
            _ => Some(text.to_owned()),
        }
    }

    fn describe(allowed: Allowed) -> String {
        match allowed {
            Allowed::Any(what) | Allowed::Text(_, what) => what.into(),
            Allowed::Between(..) => "a string".into(),
        }
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn read(value: &Value, allowed: Allowed) -> Option<Self> {
        let each = |item| T::read(item, allowed);
        value.as_array()?.iter().map(each).collect()
    }

    fn describe(allowed: Allowed) -> String {
        match allowed {
            Allowed::Any(what) | Allowed::Text(_, what) => what.into(),
            Allowed::Between(..) => format!("a list, each {}", T::describe(allowed)),
        }
    }
}

/// Declares an enum whose variants are words in the config file and on the command line.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_meta])* #[value(name = $word)] $variant),+
        }

        impl $crate::config::value::Setting for $name {
            fn read(value: &toml_edit::Value, _: $crate::config::value::Allowed) -> Option<Self> {
                match value.as_str()? {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }

            fn describe(_: $crate::config::value::Allowed) -> String {
                [$(concat!("\"", $word, "\"")),+].join(" or ")
            }
        }
    };
}
pub(crate) use choice;
