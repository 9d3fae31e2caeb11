---@meta
-- Traffic matrices. Ranks count from 0: m[0][1] is what rank 0 sends to rank 1, in bytes.

---A number of bytes, or a text such as "64K" or "1.5G" (powers of 1024).
---@alias Size integer|string

---A matrix. m[i][j] reads and sets a cell, == compares, tostring describes. A prepared plan keeps the matrix as it was.
---@class Matrix
---@field [integer] table<integer, integer> row of a rank: what it sends to each rank, in bytes
local Matrix = {}

---Number of rows and columns.
---@return integer
function Matrix:ranks() end

---Sum of all cells in bytes.
---@return integer
function Matrix:total() end

---SHA-256 of the cells in hex; equal for equal matrices.
---@return string
function Matrix:digest() end

---The ranks that send something, ascending.
---@return integer[]
function Matrix:senders() end

---The ranks that receive something, ascending.
---@return integer[]
function Matrix:receivers() end

---The ranks that send or receive something, ascending.
---@return integer[]
function Matrix:participants() end

---A new matrix in which everything flows the other way.
---@return Matrix
function Matrix:transpose() end

---What a rank sends, in bytes.
---@param rank integer
---@return integer
function Matrix:row_sum(rank) end

---What a rank receives, in bytes.
---@param rank integer
---@return integer
function Matrix:column_sum(rank) end

---A new matrix with every cell times a factor of at least 0, rounded to whole bytes.
---@param factor number
---@return Matrix
function Matrix:scale(factor) end

---Writes the matrix as text, at rank 0. The file must be one that the user named, unless --allow-io is given.
---@param path string
function Matrix:save(path) end

---@class matrix
matrix = {}

---Reads a text matrix at rank 0 and gives it to all. Collective; not at the top level of a script.
---@param path string
---@return Matrix
function matrix.load(path) end

---Reads several text matrices, with one message for all. Collective; not at the top level of a script.
---@param paths string[]
---@return Matrix[]
function matrix.load_all(paths) end

---Makes a matrix of a list of rows.
---@param rows Size[][]
---@return Matrix
function matrix.from(rows) end

---A matrix in which no rank sends.
---@param ranks integer
---@return Matrix
function matrix.new(ranks) end

---Every rank sends to every other.
---@param spec {bytes?: Size, ranks?: integer, self?: boolean} bytes per message; ranks is by default the world's size; self: to itself too
---@return Matrix
function matrix.all_to_all(spec) end

---Every rank i sends to rank i + step, modulo ranks.
---@param spec {bytes?: Size, ranks?: integer, step?: integer} step is 1 by default, and may be negative
---@return Matrix
function matrix.ring(spec) end

---Every other rank sends to root.
---@param spec {bytes?: Size, ranks?: integer, root?: integer} root is 0 by default
---@return Matrix
function matrix.incast(spec) end

---Root sends to every other rank.
---@param spec {bytes?: Size, ranks?: integer, root?: integer} root is 0 by default
---@return Matrix
function matrix.outcast(spec) end

---Every rank sends to one and receives from one: a random cycle.
---@param spec {bytes?: Size, ranks?: integer, seed?: integer} seed is --seed by default
---@return Matrix
function matrix.permutation(spec) end

---Each cell but the diagonal is filled with the probability density.
---@param spec {density?: number, min_bytes?: Size, max_bytes?: Size, ranks?: integer, seed?: integer} density is 0.1 by default, sizes are 1 to 1M, seed is --seed
---@return Matrix
function matrix.random(spec) end

---A size in bytes.
---@param size Size
---@return integer
function matrix.size(size) end
