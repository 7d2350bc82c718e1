//! What a user of the crawler would see, over its public interface.

mod bad_input;
mod command_line;
mod hostile;
mod links;
