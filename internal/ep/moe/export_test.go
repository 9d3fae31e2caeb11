package moe

// Source returns the token whose number the signs of the first channels hold.
func Source(x []uint16) int {
	token := 0
	for c, v := range x[:min(signChannels, len(x))] {
		token |= int(v>>15) << c
	}
	return token
}

// SourceFP8 is Source for quantised channels.
func SourceFP8(q []byte) int {
	token := 0
	for c, v := range q[:min(signChannels, len(q))] {
		token |= int(v>>7) << c
	}
	return token
}
