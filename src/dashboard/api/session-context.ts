/** @module Who is signed in, for what may be shown to nobody, too. */
import { createContext } from 'react'
import type { Session } from '#client/operator-api.ts'

export const SessionContext = createContext<Session | undefined>(undefined)
