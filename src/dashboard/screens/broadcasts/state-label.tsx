/** @module The state of a broadcast by word, shape and colour. */
import type { BroadcastSummary } from '#client/api.ts'
import { StatusLabel } from '../../parts/status.tsx'
import { isDelayed, toBroadcastState } from './states.ts'

export function BroadcastStateLabel({ broadcast }: { readonly broadcast: BroadcastSummary }) {
  if (isDelayed(broadcast)) return <StatusLabel tone="warning">Delayed</StatusLabel>
  const { tone, word } = toBroadcastState(broadcast.state)
  return <StatusLabel tone={tone}>{word}</StatusLabel>
}
