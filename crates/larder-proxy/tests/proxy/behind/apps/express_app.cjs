// An Express app, which knows nothing of a cache in front of it. It prints its address.
"use strict";
const { createHash, randomBytes } = require("node:crypto");
const express = require("express");

const app = express();
let calls = 0;
const cookies = (request) =>
  Object.fromEntries((request.headers.cookie ?? "").split("; ").map((cookie) => cookie.split("=")));

app.get("/page", (request, response) => {
  response.set("Cache-Control", "public, max-age=60").send(`page ${++calls}`);
});

// Express makes the ETag, and replies with a 304.
app.get("/news", (request, response) => {
  calls++;
  response.set("Cache-Control", "no-cache").send("the same news");
});

app.get("/visits", (request, response) => {
  const visits = Number(cookies(request).visits ?? 0) + 1;
  response.cookie("visits", String(visits), { httpOnly: true }).send(`visits ${visits}`);
});

const proof = (secret) => createHash("sha256").update(`of a test ${secret}`).digest("hex");

app.get("/form", (request, response) => {
  const secret = randomBytes(8).toString("hex");
  response.cookie("secret", secret).set("Cache-Control", "no-store").send(proof(secret));
});

app.post("/form", express.urlencoded({ extended: false }), (request, response) => {
  const { secret } = cookies(request);
  if (!secret || request.body?.token !== proof(secret)) return response.status(403).send("no token");
  response.redirect(`${request.protocol}://${request.get("host")}/page`);
});

app.get("/old", (request, response) => response.redirect("/page"));

app.get("/stream", async (request, response) => {
  response.type("text");
  for (let number = 0; number < 5; number++) {
    response.write(`part ${number}\n`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  response.end();
});

app.post("/upload", express.raw({ type: "*/*", limit: "16mb" }), (request, response) => {
  const sum = request.body.reduce((sum, byte) => sum + byte, 0);
  response.send(`${request.body.length} bytes, ${sum % 65536}`);
});

const server = app.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
