/** @module Links to other screens: their paths, and what is in them, have the types of the router. */

import { Anchor, type AnchorProps, Button, type ButtonProps } from '@mantine/core'
import { createLink } from '@tanstack/react-router'
import type { AnchorHTMLAttributes, ReactNode, Ref } from 'react'

type Attributes = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, keyof AnchorProps> & {
  readonly ref?: Ref<HTMLAnchorElement>
}

/** Looks as its class says. */
export const AppLink = createLink((props: AnchorHTMLAttributes<HTMLAnchorElement>) => <a {...props} />)

export const TextLink = createLink((props: AnchorProps & Attributes) => <Anchor {...props} />)

export const ButtonLink = createLink((props: ButtonProps & Attributes) => <Button component="a" {...props} />)

export const InlineLink = createLink((props: AnchorProps & Attributes) => (
  <Anchor inherit underline="always" {...props} />
))

interface NameProps extends AnchorHTMLAttributes<HTMLAnchorElement> {
  /** Default: its children. */
  readonly name?: ReactNode
}

/** The name of a thing in a list: all of its row opens the screen of it. */
export const NameLink = createLink(({ name, children, className = '', ...props }: NameProps) => (
  <a {...props} className={`row-link ${className}`}>
    <bdi>{name ?? children}</bdi>
  </a>
))

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
