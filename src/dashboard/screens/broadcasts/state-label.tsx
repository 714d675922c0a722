/** @module The state of a broadcast by word, shape and colour. */
import type { BroadcastSummary } from '#client/api.ts'
import { StatusLabel } from '../../parts/status.tsx'
import type { Tone } from '../../parts/tone.ts'
import { type BroadcastState, isDelayed, toBroadcastState } from './states.ts'

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

export const BroadcastStateLabel = ({
  broadcast,
}: {
  readonly broadcast: Pick<BroadcastSummary, 'state' | 'message'>
}) =>
  isDelayed(broadcast) ? (
    <StatusLabel tone="warning">Delayed</StatusLabel>
  ) : (
    <StatusLabel tone={TONES[broadcast.state]}>{toBroadcastState(broadcast.state).word}</StatusLabel>
  )
