---@meta
-- Time, in seconds.

---@class clock
clock = {}

---Seconds on the common time line of all ranks. Only differences mean anything.
---@return number
function clock.now() end

---Sleeps; at most a few microseconds too long on a machine that is not overloaded.
---@param seconds number 0 to one year
function clock.sleep(seconds) end

---Seconds since 1970 by this host's clock.
---@return number
function clock.wall() end

---How far two times of different ranks may be off each other, in seconds; 0 within a host.
---@return number
function clock.uncertainty() end
