//! Gives the Windows program its icon; elsewhere the icon is a file of the package.

fn main() {
    println!("cargo::rerun-if-changed=assets/windows/peercrawl.ico");
    #[cfg(windows)]
    if let Err(why) = winresource::WindowsResource::new()
        .set_icon("assets/windows/peercrawl.ico")
        .compile()
    {
        // A program without an icon is still a program.
        println!("cargo::warning=no icon: {why}");
    }
}
