/** @module The priorities of streams: which mail of an account goes first. Knows no queue. */
import { codesOf } from '#platform/db/codes.ts'

/** The position is the stored code. */
export const STREAM_PRIORITIES = ['normal', 'high', 'low'] as const
export type StreamPriority = (typeof STREAM_PRIORITIES)[number]

export const { codeOf: toPriorityCode, nameOf: toPriorityName } = codesOf('stream priority', STREAM_PRIORITIES)
