/** @module Resend's own client from npm, unmodified, against a running service. */
import { expect } from 'bun:test'
import { Resend } from 'resend'

/** The client as its documentation sets it up for another host: by the environment alone. */
export function createResend({ url, key }: { readonly url: string; readonly key: string }): Resend {
  const before = process.env['RESEND_BASE_URL']
  process.env['RESEND_BASE_URL'] = `${url}/resend`
  try {
    return new Resend(key)
  } finally {
    if (before === undefined) delete process.env['RESEND_BASE_URL']
    else process.env['RESEND_BASE_URL'] = before
  }
}

type Answer<T> = { readonly data: T; readonly error: null } | { readonly data: null; readonly error: object }

/** The data of an answer; fails with its error. */
export async function dataOf<T>(answer: PromiseLike<Answer<T>>): Promise<T> {
  const { data, error } = await answer
  expect(error).toBeNull()
  return data as T
}

/** The error of an answer; fails for success. */
export async function errorOf(answer: PromiseLike<Answer<unknown>>): Promise<unknown> {
  const { error } = await answer
  expect(error).not.toBeNull()
  return error
}
