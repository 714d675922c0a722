/** @module The priorities of streams in words. */
import type { StreamPriority } from '#features/setup/streams/priority.ts'

/** In the order in which mail goes. */
export const PRIORITY_OPTIONS: readonly { readonly value: StreamPriority; readonly label: string }[] = [
  { value: 'high', label: 'High: password resets and codes' },
  { value: 'normal', label: 'Normal: receipts and notices' },
  { value: 'low', label: 'Low: digests and summaries' },
]
