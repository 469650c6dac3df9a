// Apollo Client against an API behind the cache: queries, variables, fragments, mutations, errors, GET, persisted queries.
import assert from "node:assert/strict";
import { ApolloClient, HttpLink, InMemoryCache, gql } from "@apollo/client";
import { PersistedQueryLink } from "@apollo/client/link/persisted-queries";
import { HIT, STORED, bypass, endpoint, expect, recordingFetch, sha256 } from "./recorder.mjs";

const PRODUCT = gql`
  # The name of a product.
  query Product($id: Int!) { product(id: $id) { ...Name } }
  fragment Name on Product { id name }
`;
const RENAME = gql`mutation Rename($id: Int!, $name: String!) { rename(id: $id, name: $name) { id name } }`;

function client(link) {
  return new ApolloClient({ link, cache: new InMemoryCache(), defaultOptions: { query: { fetchPolicy: "network-only" } } });
}

async function nameOf(client, id) {
  return (await client.query({ query: PRODUCT, variables: { id } })).data.product.name;
}

const http = (options) => new HttpLink({ uri: endpoint, fetch: recordingFetch, ...options });
const post = client(http());

assert.equal(await nameOf(post, 1), "product 1");
assert.equal(await nameOf(post, 1), "product 1");
assert.equal(await nameOf(post, 2), "product 2");
const [first] = expect(STORED, HIT, STORED);
assert.equal(first.method, "POST");

await post.mutate({ mutation: RENAME, variables: { id: 1, name: "jam" } });
assert.equal(await nameOf(post, 1), "jam");
assert.equal(await nameOf(post, 2), "product 2");
expect(bypass("graphql-mutation"), STORED, HIT);

for (let n = 0; n < 2; n++) {
  const failed = await post.query({ query: gql`{ broken }`, errorPolicy: "all" });
  assert.match(failed.error.message, /shelf/);
}
expect("fwd=uri-miss; detail=graphql-errors", "fwd=uri-miss; detail=hit-for-miss");

const get = client(http({ useGETForQueries: true }));
assert.equal(await nameOf(get, 1), "jam");
assert.equal(await nameOf(get, 1), "jam");
const [asGet] = expect(STORED, HIT);
assert.equal(asGet.method, "GET");

const persisted = client(new PersistedQueryLink({ sha256 }).concat(http()));
assert.equal(await nameOf(persisted, 3), "product 3");
assert.equal(await nameOf(persisted, 3), "product 3");
assert.equal(await nameOf(persisted, 1), "jam");
// The first request has a hash that nobody knows, and is sent again with its document. Then the hash is enough, and the
// response is that of the document, whose key Apollo's plain requests have too.
const exchanges = expect(bypass("graphql-persisted"), STORED, HIT, HIT);
assert.ok(!JSON.parse(exchanges[2].body).query);
