// Empty: a package that declares functions without a body needs an assembly file.
