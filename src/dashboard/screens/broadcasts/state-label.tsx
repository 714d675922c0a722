/** @module The state of a broadcast by word, shape and colour. */
import type { BroadcastSummary } from '#client/api.ts'
import { StateLabel } from '../../parts/status.tsx'
import { isDelayed, toBroadcastState } from './states.ts'

const DELAYED = { word: 'Delayed', tone: 'warning' } as const

export const BroadcastStateLabel = ({ broadcast }: { readonly broadcast: BroadcastSummary }) => (
  <StateLabel state={isDelayed(broadcast) ? DELAYED : toBroadcastState(broadcast.state)} />
)
