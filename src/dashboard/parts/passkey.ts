/** @module Asks the browser for a passkey; the code of WebAuthn is loaded then. */
import type {
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
} from '@simplewebauthn/browser'
import { TassisError } from '#client/client.ts'

/** Whether this browser has passkeys for this page: it needs https, or this machine. */
export const hasPasskeys = (): boolean => typeof PublicKeyCredential === 'function'

/** What a person can do when the browser made none: most often it was cancelled. */
const CANCELLED = 'The browser used no passkey: it was cancelled, took too long, or there is none here.'

async function ask<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const isKnown = error instanceof Error && error.name === 'InvalidStateError'
    const message = isKnown ? 'This device or browser has a passkey of yours already.' : CANCELLED
    throw new TassisError(0, { code: 'no_passkey', message })
  }
}

/** Makes a new passkey. @param options as `/v1` returns them */
export async function createPasskey(options: unknown) {
  const { startRegistration } = await import('@simplewebauthn/browser')
  return ask(() => startRegistration({ optionsJSON: options as PublicKeyCredentialCreationOptionsJSON }))
}

/** Signs with a passkey. @param options as `/v1` returns them */
export async function signWithPasskey(options: unknown) {
  const { startAuthentication } = await import('@simplewebauthn/browser')
  return ask(() => startAuthentication({ optionsJSON: options as PublicKeyCredentialRequestOptionsJSON }))
}
