//! Arguments whose values are the words of an enum of another crate.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Returns a parser of the words of `T`. The documentation of the words in the schema of scenarios
/// is no part of the help, where that of the argument describes them.
pub(super) fn words_of<T>() -> impl TypedValueParser<Value = T>
where
    T: ValueEnum + Clone + Send + Sync + 'static,
{
    let words = T::value_variants().iter();
    let words = words.filter_map(ValueEnum::to_possible_value);
    let undescribed = words.map(|word| word.help(None::<&'static str>));
    PossibleValuesParser::new(undescribed)
        .map(|word| T::from_str(&word, false).expect("the parser accepts these words alone"))
}
