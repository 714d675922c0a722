/** A screen, with what its URL has, as a value: `linkOptions({ to: '/emails/$id', params: { id } })`. */
export type { LinkOptions as Target } from '@tanstack/react-router'
