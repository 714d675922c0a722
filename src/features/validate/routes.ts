/** @module /v1/validate: path, shape and one call. */
import { Elysia } from 'elysia'
import type { App } from '#features/app.ts'

export const validateRoutes = (_app: App) => new Elysia({ prefix: '/v1/validate' })
