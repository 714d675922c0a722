/** What a state means for the reader; it decides shape and colour. */
export type Tone = 'good' | 'bad' | 'warning' | 'waiting' | 'active' | 'neutral'
