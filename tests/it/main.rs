//! What a user of the crawler would see, over its public interface.

mod crawling;
mod crew;
mod links;
mod sharing;
