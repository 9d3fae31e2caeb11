---@meta
-- What a scenario takes from the command line.

---A declaration of an option. The first three elements are the name, the default and the help.
---@class OptionSpec
---@field [1]? string name: small letters, digits, hyphens; run gets it with underscores
---@field [2]? any default; nil: absent unless given
---@field [3]? string one line of help
---@field name? string instead of the first element
---@field default? any instead of the second element
---@field help? string instead of the third element
---@field arg? boolean an argument instead of a flag
---@field short? string a letter that stands for the flag; h and n are taken
---@field min? number smallest value of an int, number, size or tokens
---@field aliases? string[] other names of the flag, which help does not show
---@field hidden? boolean not in help
---@field original? boolean in the last group of help: a name that another tool has for this
---@field max? number largest value of an int, number, size or tokens
---@field instead_of? string name of an option that is nil where this one is given, in spite of its default, and not given with it
---@field choices? string[] the values of an enum; of a bool, words that it may have instead of true

---@class Option

---@class options
options = {}

---A whole number.
---@param spec OptionSpec
---@return Option
function options.int(spec) end

---A number.
---@param spec OptionSpec
---@return Option
function options.number(spec) end

---A number of bytes, such as 4096 or 64K (powers of 1024).
---@param spec OptionSpec
---@return Option
function options.size(spec) end

---A number of tokens: 4096, 64k (64000) or 64K (65536).
---@param spec OptionSpec
---@return Option
function options.tokens(spec) end

---A time above 0, such as 500ms, 30s or 2m, in seconds.
---@param spec OptionSpec
---@return Option
function options.duration(spec) end

---Any text.
---@param spec OptionSpec
---@return Option
function options.string(spec) end

---True or false: --name and --no-name.
---@param spec OptionSpec
---@return Option
function options.bool(spec) end

---One of the texts in choices, in upper or lower case.
---@param spec OptionSpec
---@return Option
function options.enum(spec) end

---The name of a file to read.
---@param spec OptionSpec
---@return Option
function options.path(spec) end

---The name of a file to write; the scenario may write it.
---@param spec OptionSpec
---@return Option
function options.output(spec) end

---The name of a file or folder that transfers may use as storage.
---@param spec OptionSpec
---@return Option
function options.storage(spec) end

---Says that the options do not go together, and ends the scenario.
---@param message string
---@param hint? string what to do about it
function options.reject(message, hint) end

---Reads an option's text, words with commas between them, and ends the scenario where one is not known.
---@param name string of the option
---@param text string
---@param known string[]
---@return string[]
function options.words(name, text, known) end

---Reads an option's text, whole numbers from 1 on with commas between them, and ends the scenario where one is none. Those of an option tokens take k: 64k is 64000.
---@param name string of the option
---@param text string
---@return integer[]
function options.numbers(name, text) end
