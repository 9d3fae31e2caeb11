---@meta
-- Configuration files.

---A key of a configuration file.
---@class ConfigField
---@field name? string the key; not in elem
---@field type "int"|"float"|"bool"|"string"|"size"|"path"|"enum"|"map"|"list"|"any"
---@field default? any value of a missing key
---@field required? boolean a missing key is an error
---@field min? number smallest number or size, shortest list
---@field max? number largest number or size, longest list
---@field enum? string[] the texts of an enum
---@field help? string one line for messages
---@field fields? ConfigField[] the keys of a map
---@field elem? ConfigField what each element of a list, or each value of a map, is
---@field aliases? string[] other names of the key

---@class config
config = {}

---Reads a YAML, TOML or JSON file, or the rows of a CSV or JSON lines file, at rank 0 and gives it to all. Collective; not at the top level of a script.
---A whole number that a Lua number cannot hold exactly is an opaque value that can be stored and printed.
---@param path string
---@param schema? ConfigField[] what may be in it, or in each row; fills in defaults, makes paths start at the file's folder
---@return table
function config.load(path, schema) end
