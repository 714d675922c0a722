/** @module Errors for request bodies that cannot be accepted. */
import { AppError } from '../errors.ts'

export const bodyTooLarge = (maxBytes: number): AppError =>
  new AppError(413, 'payload_too_large', `The request body is larger than the ${maxBytes} bytes allowed.`)

export const bodyTooSlow = (): AppError =>
  new AppError(408, 'request_timeout', 'The request body did not arrive in time; send it again.', {
    headers: { connection: 'close' },
  })

/** The client disconnected in the middle of its body, so no one reads this response. */
export const bodyInterrupted = (cause: unknown): AppError =>
  new AppError(400, 'request_interrupted', 'The request body ended before it was complete.', { cause })
