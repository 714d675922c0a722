/**
 * @module State that a module keeps for each object of another module: a running service, a database, a message. The
 * state is created when first needed and kept as long as its owner lives, so that two services in one process share
 * nothing.
 */

/**
 * Returns a function that creates an owner's state once: `const filesOf = perOwner((_: App) => new Map<string,
 * number>())`, then `filesOf(app)`.
 */
export function perOwner<Owner extends object, State>(make: (owner: Owner) => State): (owner: Owner) => State {
  const states = new WeakMap<Owner, { readonly state: State }>()
  return (owner) => {
    let found = states.get(owner)
    if (!found) {
      found = { state: make(owner) }
      states.set(owner, found)
    }
    return found.state
  }
}
