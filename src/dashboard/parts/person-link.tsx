/** @module The address of a recipient; it leads to everything that the account has of that person. */
import type { ReactNode } from 'react'
import { TextLink } from './links.tsx'

interface PersonLinkProps {
  readonly address: string
  /** Default: the address. */
  readonly children?: ReactNode
}

export const PersonLink = ({ address, children }: PersonLinkProps) => (
  <TextLink to="/people/$address" params={{ address }} inherit title={`All about ${address}`}>
    <bdi>{children ?? address}</bdi>
  </TextLink>
)
