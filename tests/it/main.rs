//! What a user of the crawler would see, over its public interface.

mod archive;
mod full_disk;
mod links;
mod store;
