//! What a user of the crawler would see, over its public interface.

mod archive;
mod links;
mod store;
