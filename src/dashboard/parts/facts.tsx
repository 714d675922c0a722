/** @module Names and values below each other. */
import type { ReactNode } from 'react'

/** Leaves out facts without a value. */
export const Facts = ({ facts }: { readonly facts: readonly (readonly [name: string, value: ReactNode])[] }) => (
  <dl className="facts">
    {facts.map(([name, value]) =>
      value === null || value === undefined || value === '' || value === false ? null : (
        <FactRow key={name} name={name} value={value} />
      ),
    )}
  </dl>
)

const FactRow = ({ name, value }: { readonly name: string; readonly value: ReactNode }) => (
  <>
    <dt>{name}</dt>
    <dd>{typeof value === 'string' ? <bdi>{value}</bdi> : value}</dd>
  </>
)
