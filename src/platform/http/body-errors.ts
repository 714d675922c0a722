/** @module What a client is told whose body cannot be taken. */
import { AppError } from '../errors.ts'

export const bodyTooLarge = (maxBytes: number): AppError =>
  new AppError(413, 'payload_too_large', `The request body is larger than the ${maxBytes} bytes allowed.`, {
    headers: { connection: 'close' },
  })

export const bodyTooSlow = (): AppError =>
  new AppError(408, 'request_timeout', 'The request body did not arrive in time; send it again.', {
    headers: { connection: 'close' },
  })

/** The client went away in the middle of its body, so nobody reads this answer. */
export const bodyInterrupted = (cause: unknown): AppError =>
  new AppError(400, 'request_interrupted', 'The request body ended before it was complete.', { cause })
