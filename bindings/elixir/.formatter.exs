[inputs: ["*.{ex,exs}", "{lib,test,bench}/**/*.{ex,exs}", "examples/*/*.{ex,exs}", "examples/*/lib/**/*.ex"], line_length: 132]
