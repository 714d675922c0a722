/** @module The state of a broadcast by word, shape and colour. */
import { StatusLabel } from '../../parts/status.tsx'
import type { Tone } from '../../parts/tone.ts'
import { type BroadcastState, toBroadcastState } from './states.ts'

const TONES: Readonly<Record<BroadcastState, Tone>> = {
  waiting: 'waiting',
  sending: 'active',
  paused: 'warning',
  cancelling: 'active',
  failing: 'bad',
  done: 'good',
  cancelled: 'neutral',
  failed: 'bad',
}

export const BroadcastStateLabel = ({ state }: { readonly state: BroadcastState }) => (
  <StatusLabel tone={TONES[state]}>{toBroadcastState(state).word}</StatusLabel>
)
